// The sandbox: pay, decline, or pay too late.
