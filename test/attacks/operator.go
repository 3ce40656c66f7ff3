package attacks

var onOperator = []Attack{}
