# Present here and in every folder below: without it pytest puts `tests/` on the path and `import routing` finds tests/routing.
