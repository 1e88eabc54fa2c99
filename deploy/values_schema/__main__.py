from deploy.values_schema.schema import main

main()
