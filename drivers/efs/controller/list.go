package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
)

// A job holds the due tasks about the access points of one file system.
type job struct {
	tagged  map[string]bool // access points of volumes, whose tags are compared
	counter *counter        // counts all access points; nil if that is not due
	sought  []string        // access points that SharedVolumes name
	zones   []string        // zones of the nodes that must reach sought
}

// seen is the result of listing a file system's access points.
type seen struct {
	lacking  []accessPoint // access points that lack tags
	findings map[string]finding
	err      error // why there are no findings
}

// do lists the access points of a file system once, for all tasks of a job. compare returns the missing tags of an
// access point.
func (c *caller) do(ctx context.Context, fileSystem string, j *job, compare func([]types.Tag) accessPoint) (seen, error) {
	if !fileSystemID.MatchString(fileSystem) { // EFS would refuse to answer
		return seen{findings: forAll(j.sought, noFileSystem)}, nil
	}
	var s seen
	states, sought := map[string]types.LifeCycleState{}, map[string]bool{}
	for _, id := range j.sought {
		sought[id] = true
	}
	err := c.eachAccessPoint(ctx, fileSystem, func(ap types.AccessPointDescription) (more bool) {
		id := aws.ToString(ap.AccessPointId)
		if j.counter != nil {
			j.counter.add(ap)
		}
		if sought[id] {
			states[id] = ap.LifeCycleState
		}
		if j.tagged[id] && ap.LifeCycleState != types.LifeCycleStateDeleting && ap.LifeCycleState != types.LifeCycleStateDeleted {
			if lacking := compare(ap.Tags); len(lacking.missing) > 0 {
				lacking.id = id
				s.lacking = append(s.lacking, lacking)
			}
		}
		return j.counter != nil || len(j.tagged) > 0 || len(states) < len(sought)
	})
	if none := (*types.FileSystemNotFound)(nil); errors.As(err, &none) {
		s.findings = forAll(j.sought, noFileSystem)
		return s, err
	}
	if err != nil {
		err = fmt.Errorf("reading the access points of file system %s: %w", fileSystem, err)
		return seen{err: err}, err
	}
	if len(j.sought) > 0 {
		s.findings, s.err = c.judgeAll(ctx, fileSystem, j, states)
	}
	return s, nil
}

// judgeAll returns the findings about access points, from their states and from the mount targets that the nodes need.
func (c *caller) judgeAll(ctx context.Context, fileSystem string, j *job, states map[string]types.LifeCycleState) (map[string]finding, error) {
	reached, err := c.zonesWithMountTarget(ctx, fileSystem)
	if none := (*types.FileSystemNotFound)(nil); errors.As(err, &none) {
		return forAll(j.sought, noFileSystem), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the mount targets of file system %s: %w", fileSystem, err)
	}
	unreached := unreachedZones(j.zones, c.Infrastructure.Status.PlatformStatus.AWS.Region, reached)
	found := map[string]finding{}
	for _, id := range j.sought {
		found[id] = judge(states[id], unreached)
	}
	return found, nil
}
