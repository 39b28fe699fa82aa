// Package types has the fields of EC2's objects that Felix refers to.
package types

type Reservation struct{ Instances []Instance }

type Instance struct{ NetworkInterfaces []InstanceNetworkInterface }

type InstanceNetworkInterface struct {
	Attachment         *InstanceNetworkInterfaceAttachment
	NetworkInterfaceId *string
}

type InstanceNetworkInterfaceAttachment struct{ DeviceIndex *int32 }

type AttributeBooleanValue struct{ Value *bool }
