package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes. They mean the same for all commands.
const (
	exitFine    = 0
	exitFound   = 1
	exitFailed  = 2
	exitTimeout = 124 // as in timeout(1)
)

// exitCode is a row of the table of exit codes.
type exitCode struct {
	code    int
	meaning string
}

// exitCodes are all exit codes.
var exitCodes = []exitCode{
	{exitFine, "success: the command found nothing wrong"},
	{exitFound, "it found something: faults, a difference, or a plan that is not safe"},
	{exitFailed, "failure: the command could not finish, or its command line is wrong"},
	{exitTimeout, "it timed out; run the same command again to continue"},
}

// foundAnnotation annotates commands with the meaning of exit code 1. Commands without it never end with 1.
const foundAnnotation = "berth/found"

// found returns the annotations of a command that may find something.
func found(what string) map[string]string { return map[string]string{foundAnnotation: what} }

// moreExitCodes refers to the help on the exit codes that all commands have.
const moreExitCodes = `"berth help exit-codes" has the others.`

// exitCodesOf returns the exit codes that a command has beyond those of all commands.
func exitCodesOf(cmd *cobra.Command) (of []exitCode) {
	for _, c := range exitCodes {
		switch c.code {
		case exitFine, exitFailed:
			continue
		case exitFound:
			if c.meaning = cmd.Annotations[foundAnnotation]; c.meaning == "" {
				continue
			}
		case exitTimeout:
			if cmd.Flags().Lookup("timeout") == nil {
				continue
			}
		}
		of = append(of, c)
	}
	return of
}

// listExitCodes lists exit codes for a help text.
func listExitCodes(codes []exitCode) string {
	var text strings.Builder
	text.WriteString("\n\nExit codes:")
	for _, c := range codes {
		fmt.Fprintf(&text, "\n  %-4d %s", c.code, c.meaning)
	}
	return text.String()
}

// explainExit adds to the help of each command the exit codes that not all commands have. "berth help exit-codes" lists all codes.
func explainExit(cmd *cobra.Command) {
	if codes := exitCodesOf(cmd); cmd.Runnable() && !isGroup(cmd) && len(codes) > 0 {
		cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + listExitCodes(codes) + "\n\n" + moreExitCodes
	}
	for _, sub := range cmd.Commands() {
		explainExit(sub)
	}
}

// exitError ends a command with another exit code than exitFailed. If err is nil, nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }
func (e *exitError) Unwrap() error { return e.err }
