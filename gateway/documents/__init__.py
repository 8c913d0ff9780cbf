"""The OpenAPI document, made of the description of each route."""
