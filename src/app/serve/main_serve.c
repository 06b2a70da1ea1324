/* serve: a server that programs for OpenAI's and Anthropic's APIs can use. */
int main(void)
{
    return 0;
}
