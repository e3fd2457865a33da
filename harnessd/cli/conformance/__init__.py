"""Does a build of harnessd keep its promises when it is killed? A kit that anybody can run, and read."""
