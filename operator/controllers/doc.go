// Package controllers has the controllers that a cycle of the operator runs for any driver, each in a file of its name, and
// what several of them use: the events that are worth one (events.go), and the nodes that are NotReady (nodes.go). A
// driver's own controllers are in drivers/NAME/controller.
package controllers
