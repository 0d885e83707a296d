"""The checks of `palaver doctor`: each looks at one thing of this installation and changes nothing.

checks      what a check says: a sign, a line, and what to do about it
packages    what Palaver needs, and which extras are there
settings    keys that nobody reads, and settings that are unsafe or say two things
databases   is it there, in our form, to be written, with room to grow
ports       is the port free, and who answers if not
clocks      this machine's clock, the database's, and rows from the future
modes       who else of this machine can read what is kept, or change what is set
printing    the list, for people
"""
