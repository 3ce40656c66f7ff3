package main

import (
	"context"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/drivers/registry/controllers"
	"github.com/berth-csi/berth/sharedvolume"
)

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		flags     string
		wantQPS   float32
		wantBurst int
	}{
		{"", 50, 100},
		{"--kube-api-qps=7.5 --kube-api-burst=9", 7.5, 9},
		{"--kube-api-qps=0", -1, 100},
		{"--kube-api-qps=-1", -1, 100},
	} {
		l := limits{qps: 50, burst: 100}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		l.addFlags(flags, "", "about all")
		require.NoError(t, flags.Parse(strings.Fields(test.flags)))
		cfg := &rest.Config{QPS: 3, Burst: 4}
		if got := l.applyTo(cfg); got.QPS != test.wantQPS || got.Burst != test.wantBurst {
			t.Errorf("%q: %v requests a second and %d at once, want %v and %d", test.flags, got.QPS, got.Burst, test.wantQPS, test.wantBurst)
		}
		assert.EqualValuesf(t, 3, cfg.QPS, "%q: the limits of the given configuration were changed", test.flags)
	}
}

func TestSharedVolumesNeedWorkers(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	serve := serveSharedVolumes(controller.Own{}, flags)
	require.NoError(t, flags.Parse([]string{"--shared-volume-workers=0"}))
	if err := serve.Run(context.Background(), &rest.Config{}); err == nil || !strings.Contains(err.Error(), "--shared-volume-workers is 0, want 1 or more") {
		t.Errorf("without workers, the answer is %v", err)
	}
}

// TestSharedVolumesKnowAccessPoints: what EFS brings answers the controller of SharedVolumes.
func TestSharedVolumesKnowAccessPoints(t *testing.T) {
	if _, ok := controllers.Of("efs").API.(sharedvolume.AccessPoints); !ok {
		t.Error("nobody tells the controller of SharedVolumes which access points exist")
	}
}
