package process

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	for _, argument := range []string{"", os.Args[0]} {
		found, err := Find(program, argument)
		require.NoErrorf(t, err, "with argument %q", argument)
		assert.Equalf(t, Of(os.Getpid()), found, "with argument %q", argument)
	}
	found, err := Find(program, "an argument that it does not have")
	assert.ErrorIsf(t, err, ErrNone, "found %v", found)
}

func TestMemory(t *testing.T) {
	self := Of(os.Getpid())
	_, before, err := self.Memory()
	require.NoError(t, err)
	const size = 64 << 20
	block := make([]byte, size)
	for i := 0; i < size; i += os.Getpagesize() {
		block[i] = 1
	}
	now, peak, err := self.Memory()
	require.NoError(t, err)
	if now < 64 || now > peak || peak < before {
		t.Errorf("with 64 MiB in use, the process has %.0f MiB, and had at most %.0f, before %.0f", now, peak, before)
	}
	if anonymous, err := self.Anonymous(); err != nil || anonymous < 64 || anonymous > now {
		t.Errorf("with 64 MiB in use, %.0f MiB of %.0f are of no file: %v", anonymous, now, err)
	}
	assert.EqualValues(t, 1, block[0], "the block was lost")
}

func TestWorked(t *testing.T) {
	self := Of(os.Getpid())
	before, err := self.Worked()
	require.NoError(t, err)
	for {
		now, err := self.Worked()
		require.NoError(t, err)
		if now > before { // the loop itself is work
			return
		}
	}
}
