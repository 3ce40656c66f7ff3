package attacks

var onServers = []Attack{}
