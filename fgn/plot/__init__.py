"""Every plot of times, launches and fusion."""
