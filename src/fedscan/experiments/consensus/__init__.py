"""Do tokens reach consensus across depth?"""
