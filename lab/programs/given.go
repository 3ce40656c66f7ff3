package programs

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Variables of the environment by which users provide programs that no module proxy serves.
const (
	// GivenVariable names a folder with programs, which are used instead of our stand-ins for them.
	GivenVariable = "PROGRAMS"
	// EFSUtilsVariable names a folder with the source of efs-utils.
	EFSUtilsVariable = "EFS_UTILS"
	// BoxcutterVariable names a folder with the source of the one module of OLM v1's programs that no module proxy serves.
	BoxcutterVariable = "BOXCUTTER"
	// OperatorsVariable names a clone of a repository of community operators, with folders operators/PACKAGE/VERSION.
	OperatorsVariable = "OPERATORS"
)

// WantEFSUtils is the message of one line if EFSUtilsVariable is not set.
const WantEFSUtils = "want " + EFSUtilsVariable + "=DIR, a folder with the source of efs-utils v3.2.0 (github.com/aws/efs-utils)"

// givable are the names of the programs that users may give. All others are built from modules.
var givable = []string{
	"aws-efs-csi-driver-v2.1.11", "aws-efs-csi-driver-v3.4.1", "catalogd", "csi-node-driver-registrar", "livenessprobe", "nfsplugin", "operator-controller",
}

// Given returns the path of a program that the user has given by PROGRAMS, or "". Anything wrong with the folder, or
// with any program in it that users may give, is an error, even if another program is wanted.
func Given(name string) (string, error) {
	if !slices.Contains(givable, name) {
		return "", nil
	}
	folder, err := Folder(GivenVariable)
	if folder == "" || err != nil {
		return "", err
	}
	found := map[string]string{}
	for _, name := range givable {
		path := filepath.Join(folder, name)
		err := checkProgram(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", GivenVariable, err)
		}
		found[name] = path
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s=%s has no program to use; want one or more of %s", GivenVariable, folder, strings.Join(givable, ", "))
	}
	return found[name], nil
}

// Folder returns the absolute path of the folder that a variable of the environment names, or "" if it is not set. A
// relative path begins at the root of the clone, not at a test's working directory.
func Folder(variable string) (string, error) {
	path, err := Place(variable)
	if path == "" || err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", path)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", variable, err)
	}
	return path, nil
}

// Place returns the absolute path that a variable of the environment has, or "" if it is not set.
func Place(variable string) (string, error) {
	path := os.Getenv(variable)
	if path == "" || filepath.IsAbs(path) {
		return path, nil
	}
	root, err := tools.Root()
	return filepath.Join(root, path), err
}

// machines are the architectures of programs by Go's names.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390}

// checkProgram returns an error unless a file is a program that this machine can execute.
func checkProgram(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not executable: its mode is %s", path, info.Mode())
	}
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is no program for Linux: %w", path, err)
	}
	defer program.Close()
	if want, known := machines[runtime.GOARCH]; known && program.Machine != want {
		return fmt.Errorf("%s is for another architecture: %s, want %s", path, program.Machine, want)
	}
	return nil
}

// IsStatic reports whether a program needs no shared libraries, as it must in an image that has nothing else.
func IsStatic(path string) (bool, error) {
	program, err := elf.Open(path)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	defer program.Close()
	return !slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), nil
}
