package containerd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// users are the accounts that an image defines.
type users struct {
	passwd []passwdEntry
	group  []groupEntry
}

type passwdEntry struct {
	name     string
	uid, gid uint32
}

type groupEntry struct {
	name    string
	gid     uint32
	members []string
}

// parseUsers reads /etc/passwd and /etc/group of an image. Lines that make no
// sense are left out, as libc does.
func parseUsers(passwd, group []byte) users {
	var u users
	fields(passwd, func(f []string) {
		uid, err1 := id(f, 2)
		gid, err2 := id(f, 3)
		if err1 == nil && err2 == nil {
			u.passwd = append(u.passwd, passwdEntry{f[0], uid, gid})
		}
	})
	fields(group, func(f []string) {
		gid, err := id(f, 2)
		if err != nil {
			return
		}
		g := groupEntry{name: f[0], gid: gid}
		if len(f) > 3 && f[3] != "" {
			g.members = strings.Split(f[3], ",")
		}
		u.group = append(u.group, g)
	})
	return u
}

func fields(b []byte, fn func([]string)) {
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		if line := strings.TrimSpace(sc.Text()); line != "" && !strings.HasPrefix(line, "#") {
			fn(strings.Split(line, ":"))
		}
	}
}

func id(f []string, i int) (uint32, error) {
	if i >= len(f) {
		return 0, fmt.Errorf("no field %d", i)
	}
	n, err := strconv.ParseUint(f[i], 10, 32)
	return uint32(n), err
}

// resolve finds the user of a process: what the container asks for, otherwise
// the image's "user", "user:group", "uid" or "uid:gid".
func (u users) resolve(s runtime.Security, imageUser string) (specs.User, error) {
	var out specs.User
	name, group, hasGroup := strings.Cut(imageUser, ":")
	var login string
	switch {
	case s.User != nil:
		out.UID = uint32(*s.User)
		login, out.GID = u.byUID(out.UID)
		hasGroup = false
	case name != "":
		var err error
		if login, out.UID, out.GID, err = u.lookup(name); err != nil {
			return out, err
		}
	default:
		login, _ = u.byUID(0)
	}
	if hasGroup && group != "" {
		gid, err := u.lookupGroup(group)
		if err != nil {
			return out, err
		}
		out.GID = gid
	}
	if s.Group != nil {
		out.GID = uint32(*s.Group)
	}
	if s.RunAsNonRoot && out.UID == 0 {
		return out, fmt.Errorf("container has runAsNonRoot and image will run as root")
	}
	groups := []uint32{out.GID}
	add := func(gid uint32) {
		if !slices.Contains(groups, gid) {
			groups = append(groups, gid)
		}
	}
	for _, g := range u.group {
		if login != "" && !s.StrictGroups && slices.Contains(g.members, login) {
			add(g.gid)
		}
	}
	for _, g := range s.SupplementalGroups {
		add(uint32(g))
	}
	out.AdditionalGids = groups
	return out, nil
}

func (u users) byUID(uid uint32) (string, uint32) {
	for _, p := range u.passwd {
		if p.uid == uid {
			return p.name, p.gid
		}
	}
	return "", 0
}

func (u users) lookup(name string) (login string, uid, gid uint32, err error) {
	for _, p := range u.passwd {
		if p.name == name {
			return p.name, p.uid, p.gid, nil
		}
	}
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return "", 0, 0, fmt.Errorf("unable to find user %s: no matching entries in passwd file", name)
	}
	login, gid = u.byUID(uint32(n))
	return login, uint32(n), gid, nil
}

func (u users) lookupGroup(name string) (uint32, error) {
	for _, g := range u.group {
		if g.name == name {
			return g.gid, nil
		}
	}
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("unable to find group %s: no matching entries in group file", name)
	}
	return uint32(n), nil
}

// readUsers mounts an image for reading and parses its accounts.
func readUsers(mounts []mount.Mount) (users, error) {
	var u users
	err := mount.WithReadonlyTempMount(context.Background(), mounts, func(root string) error {
		passwd, err := readIn(root, "etc/passwd")
		if err != nil {
			return err
		}
		group, err := readIn(root, "etc/group")
		if err != nil {
			return err
		}
		u = parseUsers(passwd, group)
		return nil
	})
	return u, err
}

// readIn reads a file of an image. Links cannot lead out of the image; a file
// that is missing is empty.
func readIn(root, name string) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	b, err := dir.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}
