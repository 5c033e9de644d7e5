// Command go-nvml drives the simulated libnvidia-ml.so.1 through the Go libraries that the field's GPU
// components use, and prints what they see as JSON. The integration test runs it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type migDevice struct {
	Index      int                   `json:"index"`
	UUID       string                `json:"uuid"`
	Name       string                `json:"name"`
	Profile    string                `json:"profile"`
	Parent     string                `json:"parent"`
	Attributes nvml.DeviceAttributes `json:"attributes"`
}

type gpu struct {
	Index             int         `json:"index"`
	Name              string      `json:"name"`
	UUID              string      `json:"uuid"`
	Minor             int         `json:"minor"`
	Brand             string      `json:"brand"`
	Architecture      string      `json:"architecture"`
	BusID             string      `json:"busId"`
	MemoryBytes       uint64      `json:"memoryBytes"`
	ComputeCapability string      `json:"computeCapability"`
	MigCapable        bool        `json:"migCapable"`
	MigEnabled        bool        `json:"migEnabled"`
	FabricAttached    bool        `json:"fabricAttached"`
	Profiles          []string    `json:"profiles"`
	MigDevices        []migDevice `json:"migDevices"`
}

type inventory struct {
	DriverVersion string `json:"driverVersion"`
	NvmlVersion   string `json:"nvmlVersion"`
	CudaVersion   int    `json:"cudaVersion"`
	Gpus          []gpu  `json:"gpus"`
}

func check(ret nvml.Return, what string) {
	if ret != nvml.SUCCESS {
		fail(fmt.Errorf("%s: %v", what, ret))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail(err)
	}
	return value
}

func describe(index int, d device.Device) gpu {
	name, ret := d.GetName()
	check(ret, "GetName")
	uuid, ret := d.GetUUID()
	check(ret, "GetUUID")
	minor, ret := d.GetMinorNumber()
	check(ret, "GetMinorNumber")
	memory, ret := d.GetMemoryInfo()
	check(ret, "GetMemoryInfo")
	result := gpu{Index: index, Name: name, UUID: uuid, Minor: minor, MemoryBytes: memory.Total}
	result.Brand = must(d.GetBrandAsString())
	result.Architecture = must(d.GetArchitectureAsString())
	result.BusID = must(d.GetPCIBusID())
	result.ComputeCapability = must(d.GetCudaComputeCapabilityAsString())
	result.MigCapable = must(d.IsMigCapable())
	result.MigEnabled = must(d.IsMigEnabled())
	result.FabricAttached = must(d.IsFabricAttached())
	for _, profile := range must(d.GetMigProfiles()) {
		result.Profiles = append(result.Profiles, profile.String())
	}
	if !result.MigEnabled {
		return result
	}
	err := d.VisitMigDevices(func(i int, m device.MigDevice) error {
		uuid, ret := m.GetUUID()
		check(ret, "MIG GetUUID")
		name, ret := m.GetName()
		check(ret, "MIG GetName")
		attributes, ret := m.GetAttributes()
		check(ret, "GetAttributes")
		parent, ret := m.GetDeviceHandleFromMigDeviceHandle()
		check(ret, "GetDeviceHandleFromMigDeviceHandle")
		parentUUID, ret := parent.GetUUID()
		check(ret, "parent GetUUID")
		result.MigDevices = append(result.MigDevices, migDevice{
			Index: i, UUID: uuid, Name: name, Profile: must(m.GetProfile()).String(),
			Parent: parentUUID, Attributes: attributes})
		return nil
	})
	if err != nil {
		fail(err)
	}
	return result
}

func printInventory(lib nvml.Interface) {
	var result inventory
	var ret nvml.Return
	result.DriverVersion, ret = lib.SystemGetDriverVersion()
	check(ret, "SystemGetDriverVersion")
	result.NvmlVersion, ret = lib.SystemGetNVMLVersion()
	check(ret, "SystemGetNVMLVersion")
	result.CudaVersion, ret = lib.SystemGetCudaDriverVersion()
	check(ret, "SystemGetCudaDriverVersion")
	err := device.New(lib).VisitDevices(func(i int, d device.Device) error {
		result.Gpus = append(result.Gpus, describe(i, d))
		return nil
	})
	if err != nil {
		fail(err)
	}
	text := must(json.MarshalIndent(result, "", "  "))
	fmt.Println(string(text))
}

// create makes one MIG device per profile name on a GPU, the way a partition manager does.
func create(lib nvml.Interface, index int, names []string) {
	d := must(device.New(lib).NewDeviceByUUID(uuidOf(lib, index)))
	profiles := must(d.GetMigProfiles())
	for _, name := range names {
		found := false
		for _, profile := range profiles {
			if !profile.Matches(name) {
				continue
			}
			info := profile.GetInfo()
			giInfo, ret := d.GetGpuInstanceProfileInfo(info.GIProfileID)
			check(ret, "GetGpuInstanceProfileInfo")
			gi, ret := d.CreateGpuInstance(&giInfo)
			check(ret, "CreateGpuInstance "+name)
			ciInfo, ret := gi.GetComputeInstanceProfileInfo(info.CIProfileID, info.CIEngProfileID)
			check(ret, "GetComputeInstanceProfileInfo")
			_, ret = gi.CreateComputeInstance(&ciInfo)
			check(ret, "CreateComputeInstance "+name)
			found = true
			break
		}
		if !found {
			fail(fmt.Errorf("no profile %s", name))
		}
	}
}

// clear destroys every instance of a GPU, walking it profile by profile.
func clear(lib nvml.Interface, index int) {
	d, ret := lib.DeviceGetHandleByIndex(index)
	check(ret, "DeviceGetHandleByIndex")
	for i := 0; i < nvml.GPU_INSTANCE_PROFILE_COUNT; i++ {
		giInfo, ret := d.GetGpuInstanceProfileInfo(i)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		check(ret, "GetGpuInstanceProfileInfo")
		gis, ret := d.GetGpuInstances(&giInfo)
		check(ret, "GetGpuInstances")
		for _, gi := range gis {
			for j := 0; j < nvml.COMPUTE_INSTANCE_PROFILE_COUNT; j++ {
				ciInfo, ret := gi.GetComputeInstanceProfileInfo(j, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
				if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
					continue
				}
				check(ret, "GetComputeInstanceProfileInfo")
				cis, ret := gi.GetComputeInstances(&ciInfo)
				check(ret, "GetComputeInstances")
				for _, ci := range cis {
					check(ci.Destroy(), "ComputeInstance.Destroy")
				}
			}
			check(gi.Destroy(), "GpuInstance.Destroy")
		}
	}
}

func setMode(lib nvml.Interface, index int, mode int) {
	d, ret := lib.DeviceGetHandleByIndex(index)
	check(ret, "DeviceGetHandleByIndex")
	activation, ret := d.SetMigMode(mode)
	check(ret, "SetMigMode")
	current, pending, ret := d.GetMigMode()
	check(ret, "GetMigMode")
	fmt.Printf("{\"activation\": %d, \"current\": %d, \"pending\": %d}\n", activation, current, pending)
}

// watch prints one XID event, the way the device plugin's health check waits for it.
func watch(lib nvml.Interface, milliseconds uint32) {
	set, ret := lib.EventSetCreate()
	check(ret, "EventSetCreate")
	defer set.Free()
	count, ret := lib.DeviceGetCount()
	check(ret, "DeviceGetCount")
	for i := 0; i < count; i++ {
		d, ret := lib.DeviceGetHandleByIndex(i)
		check(ret, "DeviceGetHandleByIndex")
		supported, ret := d.GetSupportedEventTypes()
		check(ret, "GetSupportedEventTypes")
		mask := uint64(nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError | nvml.EventTypeSingleBitEccError)
		check(d.RegisterEvents(mask&supported, set), "RegisterEvents")
	}
	fmt.Println("watching")
	event, ret := set.Wait(milliseconds)
	if ret == nvml.ERROR_TIMEOUT {
		fmt.Println("{\"timeout\": true}")
		return
	}
	check(ret, "Wait")
	uuid, ret := event.Device.GetUUID()
	check(ret, "GetUUID")
	fmt.Printf("{\"uuid\": %q, \"type\": %d, \"xid\": %d, \"gi\": %d, \"ci\": %d}\n", uuid,
		event.EventType, event.EventData, event.GpuInstanceId, event.ComputeInstanceId)
}

func uuidOf(lib nvml.Interface, index int) string {
	d, ret := lib.DeviceGetHandleByIndex(index)
	check(ret, "DeviceGetHandleByIndex")
	uuid, ret := d.GetUUID()
	check(ret, "GetUUID")
	return uuid
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: go-nvml inventory | create GPU PROFILE... | clear GPU | mode GPU 0|1 | watch MS"))
	}
	lib := nvml.New()
	check(lib.Init(), "Init")
	// Pairs nest: the device plugin initialises for each query while its health check holds one.
	check(lib.Init(), "nested Init")
	check(lib.Shutdown(), "nested Shutdown")
	number := 0
	if len(os.Args) > 2 {
		number = must(strconv.Atoi(os.Args[2]))
	}
	switch os.Args[1] {
	case "inventory":
		printInventory(lib)
	case "create":
		create(lib, number, os.Args[3:])
	case "clear":
		clear(lib, number)
	case "mode":
		setMode(lib, number, must(strconv.Atoi(os.Args[3])))
	case "watch":
		watch(lib, uint32(number))
	default:
		fail(fmt.Errorf("unknown word %s", os.Args[1]))
	}
	check(lib.Shutdown(), "Shutdown")
}
