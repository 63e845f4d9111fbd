// One call of the SDK's v1 class: node v1.js '{"cluster": {...}, "client": "job", "method": "list", "arguments": []}'
// Prints {"value"}, or {"status", "body"} of the answer that the SDK took for an error.
const { PAIV1 } = require('@microsoft/openpai-js-sdk');

const asked = JSON.parse(process.argv[2]);
const sdk = new PAIV1.OpenPAIClient(asked.cluster);
const client = asked.client ? sdk[asked.client] : sdk;

client[asked.method](...asked.arguments).then(
    (value) => console.log(JSON.stringify({ value })),
    (error) => console.log(JSON.stringify({ status: error.statusCode, body: error.error, message: error.message })),
);
