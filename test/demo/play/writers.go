package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/writer"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
)

// writers are pods that keep writing to the same volume, each on a node of its own. They only exist where the driver
// really runs.
var writers = []client.ObjectKey{{Namespace: "shop", Name: "writer-0"}, {Namespace: "shop", Name: "writer-1"}}

// writersClaim is the claim of the first SharedVolume.
const writersClaim = "pvc-website"

// startWriters starts the writers, and returns the mounts of their volumes, by the names of the pods.
func (w switching) startWriters(ctx context.Context) (mounts map[string]string, err error) {
	for i, key := range writers {
		pod := journey.PodWithClaim(key.Namespace, key.Name, writersClaim)
		pod.Labels = community.UserLabels
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: testbed.Nodes[i]}
		pod.Spec.Containers[0].Args = []string{"keep-writing", journey.DataFolder + "/" + key.Name}
		if err := journey.Ensure(ctx, w.cluster.Client(), pod); err != nil {
			return nil, err
		}
	}
	mounts = map[string]string{}
	for _, key := range writers {
		if err := journey.AwaitPod(ctx, w.cluster.Client(), key); err != nil {
			return nil, err
		}
		if mounts[key.Name], err = w.mountOf(ctx, key); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// mountOf returns a pod's mount of its volume.
func (s *demo) mountOf(ctx context.Context, key client.ObjectKey) (string, error) {
	pod := &corev1.Pod{}
	if err := s.cluster.Client().Get(ctx, key, pod); err != nil {
		return "", err
	}
	mount, err := testbed.MountOf(s.cluster, pod)
	if err == nil && mount == "" {
		err = fmt.Errorf("pod %s has no mount of its volume", key)
	}
	return mount, err
}

// compareWriters reports the writers' findings: records that were refused or lost, mounts that were replaced, and the
// longest pause.
func (s *demo) compareWriters(ctx context.Context, before *record, writers []client.ObjectKey) (string, error) {
	records, pause, now := 0, time.Duration(0), time.Now()
	for _, key := range writers {
		mount, err := s.mountOf(ctx, key)
		if err != nil {
			return "", err
		}
		if was := before.mounts[key.Name]; mount != was {
			return "", fmt.Errorf("the volume of pod %s was mounted again: the mount was\n%sand is\n%s", key, was, mount)
		}
		var reports writer.Reports
		if err := cluster.Until(ctx, fmt.Sprintf("pod %s to report", key), func(ctx context.Context) (err error) {
			if reports, err = s.reports(ctx, key); err == nil && (len(reports) == 0 || reports.Last().At.Before(now)) {
				err = errors.New("it has not")
			}
			return err
		}); err != nil {
			return "", err
		}
		if err := reports.Last().Err(); err != nil {
			return "", fmt.Errorf("pod %s: %w", key, err)
		}
		records += reports.Last().Records
		pause = max(pause, reports.LongestPause(before.at))
	}
	return fmt.Sprintf("%d records of %d pods, none lost or refused; same mounts as before; longest pause %v",
		records, len(writers), pause.Round(time.Millisecond)), nil
}

// reports returns the reports of a writer.
func (s *demo) reports(ctx context.Context, key client.ObjectKey) (writer.Reports, error) {
	output, err := s.cluster.Kubectl(ctx, "--namespace", key.Namespace, "logs", key.Name).Output()
	if err != nil {
		return nil, fmt.Errorf("the log of pod %s: %w", key, err)
	}
	return writer.Read(output)
}
