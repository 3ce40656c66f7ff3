package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsefs "github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/drivers/efs"
)

const (
	// maxTags is how many tags an access point can have.
	maxTags = 50
	// maxFileSystems is how many file systems a pass checks. An account can have 1,000 in a region.
	maxFileSystems = 1000
	// maxPages is how many pages of 100 access points a pass reads for a file system. A file system can have 10,000
	// access points, unless AWS has raised that limit.
	maxPages = 1000
	// maxFailures is the number of failed calls in a row after which a pass ends. After so many, the cause is not a
	// single access point.
	maxFailures = 5
	// maxNames is the maximum number of names in a sentence.
	maxNames = 3
)

// wantedTags returns the tags that the cluster wants on access points, as far as AWS allows them. They include tags
// that the driver itself cannot set.
func wantedTags(infrastructure *configv1.Infrastructure) map[string]string {
	wanted := map[string]string{}
	tags, _ := efs.ClusterTags(infrastructure, func(configv1.AWSResourceTag) string { return "" })
	for _, tag := range tags {
		wanted[tag.Key] = tag.Value
	}
	return wanted
}

// handle matches the volume handle of an access point: the file system, a path that may be empty, and the access point.
// Version 3 of the driver may put the type of the file system in front. Only the type efs matches: the other one,
// s3files, belongs to another AWS service.
var handle = regexp.MustCompile(`^(?:efs:)?(fs-[0-9a-f]{8,40}):[^:]*:(fsap-[0-9a-f]{8,40})$`)

// accessPointsOf returns the access points that volume handles name, by file system. It ignores handles that name no
// access point.
func accessPointsOf(handles []string) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	for _, h := range handles {
		match := handle.FindStringSubmatch(h)
		if match == nil {
			continue
		}
		if found[match[1]] == nil {
			found[match[1]] = map[string]bool{}
		}
		found[match[1]][match[2]] = true
	}
	return found
}

// A tagger makes one pass: it sets missing tags on the access points that volumes name and that the driver created for
// this cluster. Whether the driver created an access point is decided by its tags in AWS, because a PersistentVolume
// could name somebody else's access point.
type tagger struct {
	*caller
	tags    map[string]string // that the cluster wants
	refused map[string]string // why EFS refuses some tags, by key. A pass adds to it, and does not try these tags again

	lacking  []accessPoint // access points that lack tags
	result   tagged
	failures int   // failed calls in a row
	failed   int   // failed calls in total
	first    error // the first of these errors
	unknown  []string
	full     []string
}

// tagged is the result of a pass.
type tagged struct {
	changed int // access points that got tags
	// leftOut has a sentence about each permanent reason why access points lack a tag.
	leftOut []string
}

// end ends a pass. err is the error that made it incomplete.
func (t *tagger) end(err error) (tagged, error) {
	if err != nil {
		return t.result, err
	}
	t.summarize()
	if t.failed > 0 {
		return t.result, fmt.Errorf("%d calls to EFS failed, the first one: %w", t.failed, t.first)
	}
	return t.result, nil
}

func (t *tagger) leaveOut(format string, values ...any) {
	t.result.leftOut = append(t.result.leftOut, fmt.Sprintf(format, values...)+".")
}

// summarize writes the sentences about tags that are left out.
func (t *tagger) summarize() {
	for _, key := range slices.Sorted(maps.Keys(t.refused)) {
		t.leaveOut("access points do not get the tag %q with the value %q: EFS refuses it (%s). Change it in the Infrastructure cluster, status.platformStatus.aws.resourceTags",
			key, t.tags[key], t.refused[key])
	}
	if len(t.full) > 0 {
		t.leaveOut("%s cannot have all tags: EFS allows %d on each access point. Remove tags there that somebody else has set", some("access point", t.full), maxTags)
	}
	if len(t.unknown) > 0 {
		t.leaveOut("access points of %s do not get tags: PersistentVolumes name these file systems, but the cluster's account has none of them in the cluster's region. "+
			"If they belong to another account, set the tags there", some("file system", t.unknown))
	}
}

// some returns a phrase with the names of a list, or with their number and the first few.
func some(what string, names []string) string {
	if n := len(names); n > maxNames {
		return fmt.Sprintf("%d %ss such as %s", n, what, strings.Join(names[:maxNames], ", "))
	} else if n > 1 {
		what += "s"
	}
	return what + " " + strings.Join(names, ", ")
}

// take records the result for a file system. It returns an error if the pass must end.
func (t *tagger) take(ctx context.Context, id string, lacking []accessPoint, err error) error {
	if none := (*types.FileSystemNotFound)(nil); errors.As(err, &none) {
		t.unknown = append(t.unknown, id)
		return nil
	}
	if err != nil {
		return t.fail(ctx, err)
	}
	t.failures = 0
	t.lacking = append(t.lacking, lacking...)
	return nil
}

// tagAll sets the missing tags of all access points that lack some. It calls between before each access point.
func (t *tagger) tagAll(ctx context.Context, between func(context.Context) error) error {
	for _, ap := range t.lacking {
		if err := between(ctx); err != nil {
			return err
		}
		err := t.tag(ctx, ap)
		if none := (*types.AccessPointNotFound)(nil); errors.As(err, &none) {
			continue // deleted meanwhile
		}
		if err != nil {
			if err := t.fail(ctx, fmt.Errorf("setting tags of access point %s: %w", ap.id, err)); err != nil {
				return err
			}
			continue
		}
		t.failures = 0
	}
	return nil
}

// fail counts an error. It returns an error if the pass must end.
func (t *tagger) fail(ctx context.Context, err error) error {
	if ended := (*endedError)(nil); errors.As(err, &ended) || ctx.Err() != nil {
		return err
	}
	t.failed++
	t.first = cmp.Or(t.first, err)
	if t.failures++; t.failures == maxFailures {
		return err
	}
	return nil
}

// An accessPoint is an access point that lacks tags.
type accessPoint struct {
	id      string
	missing []string // keys of tags
	count   int      // the number of tags that it would have with these
}

// compare returns the tags that an access point lacks or has with another value. It returns none if this cluster's
// driver did not create the access point.
func (t *tagger) compare(tags []types.Tag) accessPoint {
	has := map[string]string{}
	for _, tag := range tags {
		has[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	owner := efs.OwnerTag(t.Infrastructure)
	lacking := accessPoint{count: len(has)}
	if has[efs.MarkKey] != efs.MarkValue || has[owner.Key] != owner.Value {
		return lacking
	}
	for _, key := range slices.Sorted(maps.Keys(t.tags)) {
		value, set := has[key]
		if !set {
			lacking.count++
		}
		if !set || value != t.tags[key] {
			lacking.missing = append(lacking.missing, key)
		}
	}
	return lacking
}

// tag sets the tags that an access point lacks and that EFS has not refused. If EFS refuses them together, tag sets
// them one by one, to find out which ones EFS refuses.
func (t *tagger) tag(ctx context.Context, ap accessPoint) error {
	keys := slices.DeleteFunc(ap.missing, func(key string) bool { _, refused := t.refused[key]; return refused })
	if len(keys) == 0 {
		return nil
	}
	if ap.count > maxTags {
		t.full = append(t.full, ap.id)
		return nil
	}
	err := t.setTags(ctx, ap.id, keys...)
	switch {
	case err == nil:
		t.result.changed++
		return nil
	case !isRefused(err):
		return err
	case len(keys) == 1:
		t.refused[keys[0]] = describe(err)
		return nil
	}
	changed := 0
	for _, key := range keys {
		if err := t.setTags(ctx, ap.id, key); isRefused(err) {
			t.refused[key] = describe(err)
		} else if err != nil {
			return err
		} else {
			changed = 1
		}
	}
	t.result.changed += changed
	return nil
}

func (t *tagger) setTags(ctx context.Context, id string, keys ...string) error {
	input := &awsefs.TagResourceInput{ResourceId: &id}
	for _, key := range keys {
		input.Tags = append(input.Tags, types.Tag{Key: aws.String(key), Value: aws.String(t.tags[key])})
	}
	return t.call(ctx, func(ctx context.Context) error {
		_, err := t.efs.TagResource(ctx, input)
		return err
	})
}

// isRefused reports whether EFS refuses the request of a call, so that a retry would be refused, too.
func isRefused(err error) bool {
	return slices.Contains([]string{"BadRequest", "ValidationException"}, codeOf(err))
}
