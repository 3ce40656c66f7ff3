package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// tunable is the annotation of flags that an environment variable can also set.
const tunable = "berth_tunable"

// tune marks flags as tunable.
func tune(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := flags.Lookup(name)
		flag.Annotations = map[string][]string{tunable: nil}
		flag.Usage += " [$" + variableOf(name) + "]"
	}
}

// variableOf returns the environment variable of a flag, such as KUBE_API_QPS for kube-api-qps.
func variableOf(flag string) string {
	return strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setFromVariables sets tunable flags from their environment variables, unless they are on the command line. A Subscription can set
// variables, which stay after an update of the operator, but not arguments.
func setFromVariables(flags *pflag.FlagSet, getenv func(string) string) error {
	var errs []error
	flags.VisitAll(func(flag *pflag.Flag) {
		_, may := flag.Annotations[tunable]
		variable := variableOf(flag.Name)
		value := getenv(variable)
		if !may || flag.Changed || value == "" {
			return
		}
		if err := flags.Set(flag.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w", variable, err))
		}
	})
	return errors.Join(errs...)
}
