package attacks

var onSupport = []Attack{}
