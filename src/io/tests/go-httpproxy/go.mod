module pitcrew.test/go-httpproxy

go 1.25.0
