package registry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGet(t *testing.T) {
	for _, name := range Names() {
		d, err := Get(name)
		require.NoError(t, err)
		assert.Equal(t, name, d.Name)
	}
	_, err := Get("floppy")
	assert.EqualError(t, err, `unknown driver "floppy": want one of `+strings.Join(Names(), ", "))
}

func TestAllIsACopy(t *testing.T) {
	All()[0].Name = "changed"
	assert.NotEqual(t, "changed", All()[0].Name, "a caller of All can change the registry")
}
