module pitcrew.test/bare-client

go 1.25.0
