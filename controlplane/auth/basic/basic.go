// Package basic checks names and passwords from a file: the --basic-auth-file
// that Kubernetes had until 1.19. It is off unless a file is given, and warns
// when it is on: passwords are in the clear, and only a restart revokes one.
//
// It reads its file once and owns nothing.
package basic

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// File holds the users of a file. Passwords are kept as keyed hashes.
type File struct {
	key   [sha256.Size]byte
	users map[string]entry
}

type entry struct {
	hash []byte
	info *user.DefaultInfo
}

// Open reads a file and warns.
func Open(path string, log *slog.Logger) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read password file: %w", err)
	}
	defer f.Close()
	users, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("read password file %s: %w", path, err)
	}
	log.Warn("basic authentication is on: Kubernetes removed it in 1.19; prefer client certificates or OIDC", "file", path, "users", len(users.users))
	return users, nil
}

// Read reads lines of password,user,uid[,"group1,group2"].
func Read(r io.Reader) (*File, error) {
	f := &File{users: map[string]entry{}}
	_, _ = rand.Read(f.key[:]) // never fails
	c := csv.NewReader(r)
	c.FieldsPerRecord = -1
	for {
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf("line %d: must have at least 3 columns (password, user name, user uid), found %d", line, len(record))
		}
		name := record[1]
		if name == "" || record[0] == "" {
			return nil, fmt.Errorf("line %d: password and user name must not be empty", line)
		}
		if _, twice := f.users[name]; twice {
			return nil, fmt.Errorf("line %d: user %q is there twice", line, name)
		}
		info := &user.DefaultInfo{Name: name, UID: record[2]}
		if len(record) >= 4 && record[3] != "" {
			info.Groups = strings.Split(record[3], ",")
		}
		f.users[name] = entry{hash: f.hash(record[0]), info: info}
	}
}

// Authenticate says who has the name and password. It takes the same time for
// names that exist and for those that do not.
func (f *File) Authenticate(name, password string) (user.Info, bool) {
	e, ok := f.users[name]
	if !hmac.Equal(f.hash(password), e.hash) || !ok {
		return nil, false
	}
	return e.info, true
}

func (f *File) hash(password string) []byte {
	h := hmac.New(sha256.New, f.key[:])
	h.Write([]byte(password))
	return h.Sum(nil)
}
