package attacks

var onInputs = []Attack{}
