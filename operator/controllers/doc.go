// Package controllers has the controllers that a cycle of the operator runs for any driver, each in a file of its name.
// Several of them share the filter for events (events.go), and the list of nodes that are NotReady (nodes.go). A
// driver's own controllers are in drivers/NAME/controller.
package controllers
