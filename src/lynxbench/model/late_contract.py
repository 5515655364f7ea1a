"""A contract inside an entry, whose many forms are loaded when one is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, to_json
from pydantic_core.core_schema import no_info_plain_validator_function

from lynxbench.model.document import first_problem

if TYPE_CHECKING:
    from lynxbench.model.contract import Contract


class LateContract:
    """The contract in an entry. Its many forms are loaded when one is read: a list of results opens none of them."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_plain_validator_function(cls._read)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        from lynxbench.model.contract import Contract

        Contract.model_rebuild()
        return handler(Contract.__pydantic_core_schema__)

    @staticmethod
    def _read(value: object) -> Contract:
        from lynxbench.model.contract import Contract

        try:
            return value if isinstance(value, Contract) else Contract.model_validate_json(to_json(value))
        except ValidationError as error:
            raise ValueError(first_problem(error, "contract")) from None
