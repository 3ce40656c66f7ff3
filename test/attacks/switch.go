package attacks

var onSwitch = []Attack{}
