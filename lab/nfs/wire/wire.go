// Package wire defines the protocol between the programs of package nfsclient and the server of package nfs: JSON
// objects, one after the other.
package wire

import "syscall"

// Socket is the abstract socket at which a node turns a ticket into a mount. It stands for the kernel's NFS client. A
// client sends a Ticket, and gets the file descriptor of the mount with one byte.
const Socket = "@nfs.berth.test"

// Greeting is the first object of a connection to the server. It has one of the fields.
type Greeting struct {
	// Tunnel is sent by efs-proxy before a Mount.
	Tunnel *Tunnel `json:"tunnel,omitempty"`
	Mount  *Mount  `json:"mount,omitempty"`
}

// Tunnel identifies the client of efs-proxy to the server of a file system.
type Tunnel struct {
	// Host is the name that the server's certificate must have, such as "fs-0123.efs.us-east-1.amazonaws.com".
	Host string `json:"host"`
	// Certificate is the client's, as PEM, and empty without TLS. mount.efs writes the access point into it.
	Certificate []byte `json:"certificate,omitempty"`
}

// Mount asks for an export.
type Mount struct {
	Path string `json:"path"`
	// Version is the version of the protocol, such as "4.1".
	Version string `json:"version"`
}

// Answer is the server's response to a Mount.
type Answer struct {
	// Error is 0 if there is a ticket. Otherwise it is the error of the kernel's NFS client.
	Error  syscall.Errno `json:"error,omitempty"`
	Ticket Ticket        `json:"ticket,omitempty"`
}

// Ticket is good for one mount.
type Ticket string

// TicketLength is the length of every ticket.
const TicketLength = 26
