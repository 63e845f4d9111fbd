"""How much of the store a user's own trees may hold: ``use`` says how much and counts, ``writes`` refuses."""
