"""Machine code of kernels: cache folders, reading and saving, and a message if compilation takes long."""
