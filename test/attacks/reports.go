package attacks

var onReports = []Attack{}
