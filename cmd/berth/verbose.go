package main

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-csi/berth/cmd/internal/logging"
)

// Levels of --verbose. All but causesLevel are klog's levels, at which client-go logs requests, as it does for kubectl.
const (
	causesLevel = 1
	maxLevel    = 10
)

// level is the value of --verbose: a number. true, like the flag without a value, means causesLevel.
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

// addVerbose adds the flag --verbose, with kubectl's levels, for details that messages leave out. --v is kubectl's name for the flag.
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

// levelOf matches kubectl's two ways to write a level: -v6, and -v with the level as the next argument.
var levelOf = regexp.MustCompile(`^(-v|--v)([0-9]+)?$`)

// withLevels joins each -v with its level, as in -v=6. -v is also valid without a level, so the parser would take a separate level for an
// argument of the command.
func withLevels(args []string) (joined []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(joined, args[i:]...)
		}
		found := levelOf.FindStringSubmatch(args[i])
		switch {
		case found != nil && found[2] != "":
			joined = append(joined, found[1]+"="+found[2])
		case found != nil && i+1 < len(args) && isLevel(args[i+1]):
			i++
			joined = append(joined, found[1]+"="+args[i])
		default:
			joined = append(joined, args[i])
		}
	}
	return joined
}

func isLevel(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0 && n <= maxLevel
}

// verbosity returns the level of --verbose.
func verbosity(cmd *cobra.Command) level {
	l, is := cmd.Root().PersistentFlags().Lookup("verbose").Value.(*level)
	if !is {
		return 0
	}
	return *l
}

// logRequests makes client-go log requests at the level of --verbose, but never their bodies.
func logRequests(cmd *cobra.Command) {
	logging.LeaveOutBodies()
	l := verbosity(cmd)
	if l == causesLevel {
		l = 0 // klog's messages of that level are about files that were read
	}
	logging.Level(int(l))
}
