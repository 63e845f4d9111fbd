// Starts the page of a folder into which the reader may put files.

import "./choose.js";
import "./remove.js";
