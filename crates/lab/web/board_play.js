// The board of a demonstration: it has crowds.

import * as board from "./board.js";
import * as crowd from "./board_crowd.js";

board.alsoEverySecond(crowd.read);
crowd.start(board.chosenSale);
