module pitcrew/engines/containerd-2.4

go 1.25.0

require github.com/containerd/containerd/v2 v2.4.2
