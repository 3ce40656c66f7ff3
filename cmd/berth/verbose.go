package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-csi/berth/cmd/internal/logging"
)

// Levels of --verbose. All but the first are klog's: client-go logs requests by them, as it does for kubectl.
const (
	causesLevel = 1
	maxLevel    = 10
)

// level is the value of --verbose: a number, or true for causesLevel, which it means without a value.
type level int

func (l *level) String() string { return strconv.Itoa(int(*l)) }
func (l *level) Type() string   { return "level" }

func (l *level) Set(text string) error {
	if on, err := strconv.ParseBool(text); err == nil && text != "0" && text != "1" {
		*l = 0
		if on {
			*l = causesLevel
		}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxLevel {
		return fmt.Errorf("want a level from 0 to %d", maxLevel)
	}
	*l = level(n)
	return nil
}

// addVerbose adds the flag for what messages leave out, by kubectl's levels. --v is kubectl's name for it.
func addVerbose(root *cobra.Command) {
	var l level
	flags := root.PersistentFlags()
	for _, flag := range []*pflag.Flag{
		flags.VarPF(&l, "verbose", "v", "`level`: -v prints the errors behind a message, -v=6 requests to the cluster, -v=8 their headers"),
		flags.VarPF(&l, "v", "", "same as --verbose"),
	} {
		flag.NoOptDefVal = strconv.Itoa(causesLevel)
		flag.Hidden = flag.Name == "v"
	}
}

// verbosity returns the level of --verbose.
func verbosity(cmd *cobra.Command) level {
	l, is := cmd.Root().PersistentFlags().Lookup("verbose").Value.(*level)
	if !is {
		return 0
	}
	return *l
}

// logRequests has client-go log what --verbose asks for, and never what requests contain.
func logRequests(cmd *cobra.Command) {
	logging.LeaveOutBodies()
	l := verbosity(cmd)
	if l == causesLevel {
		l = 0 // klog's messages of that level are about files that were read
	}
	logging.Level(int(l))
}
