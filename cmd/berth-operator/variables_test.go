package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestSetFromVariables(t *testing.T) {
	for name, test := range map[string]struct {
		args, variables string
		want            limits
		wantErr         string
	}{
		"none":                 {want: limits{qps: 50, burst: 100}},
		"a variable":           {variables: "KUBE_API_QPS=7.5", want: limits{qps: 7.5, burst: 100}},
		"an argument prevails": {args: "--kube-api-qps=9", variables: "KUBE_API_QPS=7.5 KUBE_API_BURST=8", want: limits{qps: 9, burst: 8}},
		"not for all flags":    {variables: "OTHER=set", want: limits{qps: 50, burst: 100}},
		"not a number": {variables: "KUBE_API_BURST=many",
			wantErr: `environment variable KUBE_API_BURST: invalid argument "many" for "--kube-api-burst" flag`},
	} {
		t.Run(name, func(t *testing.T) {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			l := limits{qps: 50, burst: 100}
			l.addFlags(flags, "", "about all")
			other := flags.String("other", "", "what no variable sets")
			require.NoError(t, flags.Parse(strings.Fields(test.args)))
			variables := map[string]string{}
			for _, variable := range strings.Fields(test.variables) {
				name, value, _ := strings.Cut(variable, "=")
				variables[name] = value
			}
			err := setFromVariables(flags, func(name string) string { return variables[name] })
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("the error is %v, want %q", err, test.wantErr)
			}
			if err == nil && l != test.want || *other != "" {
				t.Errorf("the flags are %+v and %q, want %+v", l, *other, test.want)
			}
		})
	}
}
