"""Machine code of kernels: where it is kept, how it is read and saved, and one line when compiling takes long."""
