module pitcrew/engines/containerd-2.1

go 1.25.0

require github.com/containerd/containerd/v2 v2.1.9
