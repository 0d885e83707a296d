"""The commands of `palaver testset`."""
