"""Who may say who somebody is beside this portal: OIDC providers, as LONGSHORE_SIGN_IN names them."""
