# Here and in every folder below: else pytest puts `tests/` on the path, and `import routing` finds tests/routing.
