"""How much of the store a user's own trees may hold: ``limits`` says how much, ``use`` counts, ``writes`` refuses."""
