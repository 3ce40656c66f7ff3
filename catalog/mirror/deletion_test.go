package mirror_test

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
)

// opened chooses all of a catalog.
func opened(t *testing.T, from string) *mirror.Mirror {
	t.Helper()
	s, err := source.Open(t.Context(), from)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	m, err := mirror.New(t.Context(), s.Dir, mirror.Options{Name: "sea", Tag: "latest", Jobs: 2, Text: from})
	check(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// TestDeletion: a list has the images that the destination has and its catalog does not name. Only what the list names is deleted,
// and all that the catalog names is still whole.
func TestDeletion(t *testing.T) {
	s := newSea(t, nil)
	to := registry.Start(t, nil) + "/mirror"
	for _, selection := range []string{"tide", "tide@2.0.0"} {
		_, _, _, err := run(t, t.Context(), s.dir, to, selection)
		check(t, err)
	}
	destination, err := mirror.OpenDestination(to, "sea")
	check(t, err)
	defer destination.Close()
	gone, err := mirror.NewImages([]string{s.address + "/example/nobody:v1"}, mirror.Options{Jobs: 1})
	check(t, err)
	d, err := mirror.PlanDeletion(t.Context(), destination, []*mirror.Mirror{opened(t, s.dir), gone}, []*mirror.Mirror{opened(t, to+"/sea:latest")})
	check(t, err)
	var list bytes.Buffer
	check(t, d.Write(&list))
	confirmed, err := mirror.ReadDeletion(list.Bytes(), to)
	check(t, err)
	images := confirmed.Images
	var early, late []string
	for i, image := range s.images[:6] {
		place := to + "/" + placeOf(image)
		if early = append(early, place); i >= 4 {
			early, late = early[:4], append(late, place)
		}
	}
	slices.Sort(early)
	slices.Sort(late)
	if !slices.Equal(images, early) || !slices.Equal(slices.Sorted(maps.Keys(d.Needed)), late) || len(d.Absent) != 1 {
		t.Errorf("the list is\n%s\nwant these deleted:\n%s\nand these kept:\n%s", &list, strings.Join(early, "\n"), strings.Join(late, "\n"))
	}
	for _, image := range images[1:] {
		check(t, oci.Delete(t.Context(), image))
		check(t, oci.Delete(t.Context(), image)) // it is gone
	}
	for i, place := range early {
		if got := digestIn(t, place); (got == "") != (i > 0) {
			t.Errorf("%s has the digest %q after the deletion of all but the first", place, got)
		}
	}
	for _, place := range late {
		check(t, oci.CheckComplete(t.Context(), place))
	}
}

// TestDeletionKeepsSharedImages: an image is kept if a list that the catalog needs names it, or if it has a blocked name, too.
func TestDeletionKeepsSharedImages(t *testing.T) {
	s := newSea(t, nil)
	to := registry.Start(t, nil) + "/mirror"
	for _, selection := range []string{"tide", "tide@2.0.0"} {
		_, _, _, err := run(t, t.Context(), s.dir, to, selection)
		check(t, err)
	}
	early, late := s.images[1], s.images[5] // the operator, of the first version and of the last
	parts, err := oci.Digests(t.Context(), to+"/"+placeOf(late))
	check(t, err)
	require.GreaterOrEqualf(t, len(parts), 2, "%s has the digests %s, want also those of its architectures", late, parts)
	repository, _, _ := strings.Cut(late, "@")
	child := repository + "@" + parts[1]
	check(t, oci.Tag(t.Context(), to+"/"+placeOf(early), "blocked"))
	destination, err := mirror.OpenDestination(to, "sea")
	check(t, err)
	defer destination.Close()
	chosen, err := mirror.NewImages([]string{child, early, repository + ":blocked"}, mirror.Options{Jobs: 1, Blocked: []*regexp.Regexp{regexp.MustCompile(":blocked$")}})
	check(t, err)
	d, err := mirror.PlanDeletion(t.Context(), destination, []*mirror.Mirror{chosen}, []*mirror.Mirror{opened(t, to+"/sea:latest")})
	check(t, err)
	want := []string{to + "/" + placeOf(child), to + "/" + placeOf(early)}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(d.Needed)); len(d.Unneeded) > 0 || !slices.Equal(got, want) {
		t.Errorf("%s are listed, and %s kept; want only %s kept", slices.Sorted(maps.Keys(d.Unneeded)), got, want)
	}
}

// TestDeletionByHand: a list that was written by hand deletes nothing else than images by digest below the destination.
func TestDeletionByHand(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	const to = "registry.example.com/mirror"
	for line, want := range map[string]string{
		to + "/a:latest":                                  "expected an image by its digest",
		to + digest:                                       "expected an image below",
		"registry.example.com/other" + digest:             "expected an image below",
		to + "s/a" + digest:                               "expected an image below",
		"a" + digest:                                      "expected an image by its digest",
		to + "/a" + digest + " b":                         "expected an image by its digest",
		to + "/../prod/a" + digest:                        `the part ".."`,
		to + "/./a" + digest:                              `the part "."`,
		to + "//a" + digest:                               `the part ""`,
		"# for the catalog " + to + "/a latest":           "expected a catalog and its digest",
		"# for the catalog " + to + "/../a " + digest[1:]: "want a reference",
	} {
		if _, err := mirror.ReadDeletion([]byte("# kept\n\n"+line+"\n"), to); err == nil || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is refused for %v, want %q", line, err, want)
		}
	}
	list, err := mirror.ReadDeletion([]byte("# kept: x\n  "+to+"/a"+digest+"\r\n"), to+"/")
	if err != nil || !slices.Equal(list.Images, []string{to + "/a" + digest}) || len(list.Catalogs) > 0 {
		t.Errorf("it reads %v, %v", list, err)
	}
}
