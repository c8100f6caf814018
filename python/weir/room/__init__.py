"""The control room: pages about a running store, its jobs and the reasons, now and in the past.

`sources` reads the control API and the history, `pages` makes plain data of them, one module a page, and `figures`
describes the figures. None of these knows the web. `visitors` says who looks and what they may see; `web` serves the
pages, and `recording` keeps the history while no other recorder does.
"""
