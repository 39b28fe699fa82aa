// Package ec2 replaces Amazon's client for EC2, which takes a third of the time that compiling Felix takes. Felix uses it only
// for the setting awsSrcDstCheck, which the local cluster does not have. It declares what Felix refers to, and every call fails.
package ec2

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

var errNoClient = errors.New("this Felix is built without a client for EC2: leave awsSrcDstCheck at DoNothing")

type Options struct{ Region string }

type Client struct{}

func NewFromConfig(aws.Config, ...func(*Options)) *Client { return &Client{} }

type DescribeInstancesInput struct{ InstanceIds []string }

type DescribeInstancesOutput struct{ Reservations []types.Reservation }

func (*Client) DescribeInstances(context.Context, *DescribeInstancesInput, ...func(*Options)) (*DescribeInstancesOutput, error) {
	return nil, errNoClient
}

type ModifyNetworkInterfaceAttributeInput struct {
	NetworkInterfaceId *string
	SourceDestCheck    *types.AttributeBooleanValue
}

type ModifyNetworkInterfaceAttributeOutput struct{}

func (*Client) ModifyNetworkInterfaceAttribute(context.Context, *ModifyNetworkInterfaceAttributeInput, ...func(*Options)) (*ModifyNetworkInterfaceAttributeOutput, error) {
	return nil, errNoClient
}
