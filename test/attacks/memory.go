package attacks

var onMemory = []Attack{}
