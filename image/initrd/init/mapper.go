//go:build linux

package main

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests of linux/dm-ioctl.h that are made here. Each is _IOWR(0xfd, n,
// struct dm_ioctl), whose size is 312 bytes.
const (
	mapperRequest = 3<<30 | headerSize<<16 | 0xfd<<8

	mapperCreate, mapperResume, mapperLoad = 3, 6, 9

	headerSize = 312
	specSize   = 40
	readOnly   = 1 << 0 // DM_READONLY_FLAG
)

// mapperHeader is struct dm_ioctl.
type mapperHeader struct {
	version             [3]uint32
	dataSize, dataStart uint32
	targets             uint32
	open                int32
	flags, event, _     uint32
	device              uint64
	name                [128]byte
	uuid                [129]byte
	_                   [7]byte
}

// mapperSpec is struct dm_target_spec; the text for the target follows it.
type mapperSpec struct {
	start, length uint64
	status        int32
	next          uint32
	kind          [16]byte
}

// mapper is the device mapper's control device.
type mapper struct{ fd int }

func openControl() (mapper, error) {
	fd, err := unix.Open("/dev/mapper/control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return mapper{}, fmt.Errorf("open the device mapper: %w", err)
	}
	return mapper{fd}, nil
}

func (m mapper) close() { _ = unix.Close(m.fd) }

// create makes an empty device and returns its minor number.
func (m mapper) create(name, uuid string) (uint32, error) {
	h, err := m.call(mapperCreate, mapperHeader{}, name, uuid, nil)
	if err != nil {
		return 0, fmt.Errorf("create device %s: %w", name, err)
	}
	return unix.Minor(h.device), nil
}

// load gives the device one read-only target.
func (m mapper) load(name, target string, sectors uint64, params string) error {
	_, err := m.call(mapperLoad, mapperHeader{flags: readOnly, targets: 1}, name, "", encodeTarget(target, sectors, params))
	if err != nil {
		return fmt.Errorf("load table %q: %w", params, err)
	}
	return nil
}

// resume puts the loaded table in force.
func (m mapper) resume(name string) error {
	if _, err := m.call(mapperResume, mapperHeader{}, name, "", nil); err != nil {
		return fmt.Errorf("start device %s: %w", name, err)
	}
	return nil
}

func (m mapper) call(request uintptr, h mapperHeader, name, uuid string, payload []byte) (mapperHeader, error) {
	buf := encodeRequest(h, name, uuid, payload)
	p := unsafe.Pointer(&buf[0])
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m.fd), mapperRequest|request, uintptr(p)); errno != 0 {
		return mapperHeader{}, errno
	}
	return *(*mapperHeader)(p), nil
}

// encodeRequest is the header, the payload behind it, and room for an answer. It
// is made of uint64s, so that the header lies where its fields can be read.
func encodeRequest(h mapperHeader, name, uuid string, payload []byte) []uint64 {
	const answer = 64
	buf := make([]uint64, (headerSize+len(payload)+answer+7)/8)
	h.version = [3]uint32{4, 0, 0}
	h.dataSize, h.dataStart = uint32(len(buf)*8), headerSize
	copy(h.name[:len(h.name)-1], name)
	copy(h.uuid[:len(h.uuid)-1], uuid)
	*(*mapperHeader)(unsafe.Pointer(&buf[0])) = h
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&buf[headerSize/8])), len(payload)), payload)
	return buf
}

// encodeTarget is a target and its text, ended by a zero and padded to 8 bytes.
func encodeTarget(kind string, sectors uint64, params string) []byte {
	spec := mapperSpec{length: sectors}
	copy(spec.kind[:len(spec.kind)-1], kind)
	b := append([]byte{}, (*[specSize]byte)(unsafe.Pointer(&spec))[:]...)
	b = append(append(b, params...), 0)
	return append(b, make([]byte, -len(b)&7)...)
}
